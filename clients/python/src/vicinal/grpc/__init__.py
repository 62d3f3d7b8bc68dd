"""
The operations over gRPC. They need `vicinal[grpc]`.

Messages are encoded here, without generated code. So the bytes of an array are copied into the message, while
protobuf's runtime for Python would convert every component; and grpcio is the only dependency.
"""
