"""Who is connected to the broker, and what that principal may do.

Start from `authentication.Authentication`, one for each connection. `authorizer` decides by the ACLs that `acl_mirror`
mirrors; `delegation_tokens` mirrors the cluster's tokens; `token_keys` has the keys that verify access tokens, and
`own_token` the access token with which this broker logs in to others.
"""
