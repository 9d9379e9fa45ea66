"""The hub that this file was fetched from; "" where it came another way."""

ADDRESS = ""
