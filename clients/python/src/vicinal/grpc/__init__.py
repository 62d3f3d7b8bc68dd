"""
The operations over gRPC: needs `vicinal[grpc]`.

Messages are encoded here, without generated code: so a vector goes from NumPy's memory to the wire and back in one
copy, which no protobuf runtime for Python offers, and grpcio is the only dependency.
"""
