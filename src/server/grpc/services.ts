import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { fromBinary, toBinary } from '@bufbuild/protobuf'
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt'
import type { MethodDefinition, Server, ServiceDefinition, UntypedServiceImplementation } from '@grpc/grpc-js'
import type { MessageTypeDefinition } from '@grpc/proto-loader'
import type { HealthImplementation } from 'grpc-health-check'

/**
 * The standard services: health and reflection. Libraries implement them, and are loaded on the first call of one of
 * their methods: loading takes a tenth of the start-up time, and many deployments never call either.
 */

type ServingStatus = 'SERVING' | 'NOT_SERVING'

const load = createRequire(import.meta.url)

/** The service grpc.health.v1.Health. */
export class Health {
  readonly #statuses: Record<string, ServingStatus> = {}
  #library: HealthImplementation | undefined

  /** @param names of the services whose status it reports, with '' for the whole server; all start as NOT_SERVING */
  constructor(server: Server, names: readonly string[]) {
    for (const name of names) this.#statuses[name] = 'NOT_SERVING'
    const methods = ['Check', 'Watch', 'List'].map((name) => ({
      path: `/grpc.health.v1.Health/${name}`,
      requestStream: false,
      responseStream: name === 'Watch',
    }))
    addLazily(server, methods, (registrar) => {
      const library = load('grpc-health-check') as typeof import('grpc-health-check')
      this.#library = new library.HealthImplementation({ ...this.#statuses })
      this.#library.addToServer(registrar)
    })
  }

  /** Sets the status of all services, and notifies their watchers. */
  set(status: ServingStatus): void {
    for (const name of Object.keys(this.#statuses)) {
      this.#statuses[name] = status
      this.#library?.setStatus(name, status)
    }
  }
}

/** Adds gRPC reflection, with which callers read the service's proto file and its imports. */
export function addReflection(server: Server): void {
  const methods = ['v1', 'v1alpha'].map((version) => ({
    path: `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
    requestStream: true,
    responseStream: true,
  }))
  addLazily(server, methods, (registrar) => {
    const { ReflectionService } = load('@grpc/reflection') as typeof import('@grpc/reflection')
    const fileDescriptorProtos = filesIn(readFileSync(descriptorsPath))
    // The library only reads the files of a message's definition, so one message is enough.
    const definition = { fileDescriptorProtos } as MessageTypeDefinition<object, object>
    new ReflectionService({ 'vectordb.Point': definition }).addToServer(registrar)
  })
}

/** A google.protobuf.FileDescriptorSet, generated from proto/. */
const descriptorsPath = fileURLToPath(new URL('./generated/descriptors.binpb', import.meta.url))

function filesIn(descriptorSet: Buffer): Uint8Array[] {
  const { file } = fromBinary(FileDescriptorSetSchema, descriptorSet)
  return file.map((each) => toBinary(FileDescriptorProtoSchema, each))
}

/** A method of a service that a library implements. */
interface LazyMethod {
  readonly path: string
  readonly requestStream: boolean
  readonly responseStream: boolean
}

/** Stands in for the server to which a library adds its services. */
type ServiceRegistrar = Pick<Server, 'addService'>

/** @param addAll loads the library, and lets it add its services to the registrar */
function addLazily(
  server: Server,
  methods: readonly LazyMethod[],
  addAll: (registrar: ServiceRegistrar) => void,
): void {
  let loaded: ReadonlyMap<string, LoadedMethod> | undefined
  const load = (path: string): LoadedMethod => {
    loaded ??= methodsAdded(addAll)
    return loaded.get(path)!
  }
  const pass = (bytes: Buffer): Buffer => bytes
  const definition: ServiceDefinition = Object.fromEntries(
    methods.map((method) => [
      method.path,
      {
        ...method,
        requestSerialize: pass,
        requestDeserialize: (bytes: Buffer) => load(method.path).definition.requestDeserialize(bytes),
        responseSerialize: (answer: object) => load(method.path).definition.responseSerialize(answer),
        responseDeserialize: pass,
      },
    ]),
  )
  const handlers = methods.map(({ path }) => [path, (...call: unknown[]) => load(path).handle(...call)])
  server.addService(definition, Object.fromEntries(handlers))
}

interface LoadedMethod {
  readonly definition: MethodDefinition<object, object>
  readonly handle: (...call: unknown[]) => unknown
}

/** Returns the methods that a library adds, by path. */
function methodsAdded(addAll: (registrar: ServiceRegistrar) => void): ReadonlyMap<string, LoadedMethod> {
  const methods = new Map<string, LoadedMethod>()
  const addService = (service: ServiceDefinition, implementation: UntypedServiceImplementation): void => {
    for (const [name, definition] of Object.entries(service)) {
      const handle = (implementation[name] ??
        implementation[definition.originalName!]) as LoadedMethod['handle']
      methods.set(definition.path, { definition, handle })
    }
  }
  addAll({ addService })
  return methods
}
