"""
The operations over gRPC: needs `vicinal[grpc]`.

Messages are encoded here, without generated code: so the bytes of an array are those of the message, whereas protobuf's
runtime for Python converts every component, and grpcio is the only dependency.
"""
