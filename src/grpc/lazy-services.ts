import type { MethodDefinition, Server, ServiceDefinition, UntypedServiceImplementation } from '@grpc/grpc-js'

/** A method of a service that a library implements. */
export interface LazyMethod {
  readonly path: string
  readonly requestStream: boolean
  readonly responseStream: boolean
}

/** What a library adds its services to, as it would to a server. */
export type ServiceTaker = Pick<Server, 'addService'>

/**
 * Adds methods that a library implements, and loads it when one of them is called first: the libraries of health and
 * reflection take a tenth of a start, and many services are never asked for either.
 *
 * @param addAll loads the library, and has it add its services to what it is given
 */
export function addLazily(
  server: Server,
  methods: readonly LazyMethod[],
  addAll: (taker: ServiceTaker) => void,
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

/** By path. */
function methodsAdded(addAll: (taker: ServiceTaker) => void): ReadonlyMap<string, LoadedMethod> {
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
