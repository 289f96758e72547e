"""Who a client is: JAAS logins, SCRAM (RFC 5802, RFC 7677), and SASL exchanges from both sides. No I/O, no clock.

Rules: secrets are compared in constant time; an unknown user is refused at the same step, with the same words and after
the same work as a wrong password; nothing here puts a secret into a message.
"""
