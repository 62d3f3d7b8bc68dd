/** Clients of the service, one interface over both transports. */
export { createGrpcClient, type GrpcClientOptions } from './grpc-client.ts'
export * from './http.ts'
