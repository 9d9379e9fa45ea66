"""How people come in: password, directory, OpenID Connect, second factors, invitations."""
