"""The version of the package, which is that of the service."""

VERSION = "0.1.0"
