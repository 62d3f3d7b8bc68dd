/** Clients of the service, with one interface for both transports. */
export { createGrpcClient, type GrpcClientOptions } from './grpc-client.ts'
export * from './http.ts'
