"""The version of the package, which is the same as that of the service."""

VERSION = "0.1.0"
