import type { MethodDefinition, Server, ServiceDefinition, UntypedServiceImplementation } from '@grpc/grpc-js'

/** A method of a service that a library implements. */
export interface LazyMethod {
  readonly path: string
  readonly requestStream: boolean
  readonly responseStream: boolean
}

/** Stands in for the server to which a library adds its services. */
export type ServiceRegistrar = Pick<Server, 'addService'>

/**
 * Adds methods that a library implements, and loads the library on the first call of one of them. The libraries of
 * health and reflection take a tenth of the start-up time, and many deployments never call either.
 *
 * @param addAll loads the library, and lets it add its services to the registrar
 */
export function addLazily(
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
