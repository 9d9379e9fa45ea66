"""An LDAP directory as a client sees it."""
