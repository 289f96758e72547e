"""Sockets on the event loop: accepted (`acceptor`), dialled (`dialer`), read and written (`traffic`,
`connection`).

Start at `traffic.Traffic`. Nothing here knows what a frame means; frames go to `traffic.ConnectionObserver`.
"""
