"""Sockets on the event loop: accepted (`acceptor`), opened to other brokers (`dialer`), read and written (`traffic`,
`connection`).

Start at `traffic.Traffic`. Nothing here interprets frames; they go to `traffic.ConnectionObserver`.
"""
