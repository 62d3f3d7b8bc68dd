type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/**
 * The method and the path of each operation over HTTP: the server answers them, the client and the command line call
 * them. What begins with a colon is a parameter.
 */
const requestLines = {
  InsertVector: 'POST /points',
  InsertVectorsBatch: 'POST /points/batch',
  GetPoint: 'GET /points/:id',
  DeletePoint: 'DELETE /points/:id',
  SearchPoints: 'POST /points/search',
  SearchPointsBatch: 'POST /points/search/batch',
  EvaluatePoints: 'POST /points/evaluate',
  PutPoint: 'PUT /points/:id',
  PatchPoint: 'PATCH /points/:id',
  ListPoints: 'POST /points/list',
  CountPoints: 'POST /points/count',
  FacetPoints: 'POST /points/facets',
  UpdatePoints: 'POST /points/update',
  DeletePoints: 'POST /points/delete',
  ListCollections: 'GET /collections',
  GetCollection: 'GET /collections/:name',
  PutCollection: 'PUT /collections/:name',
  DeleteCollection: 'DELETE /collections/:name',
  SetAliases: 'PUT /aliases',
  TakeSnapshot: 'POST /snapshots',
  TakeChanges: 'POST /changes',
  GetStats: 'GET /stats',
  ListSlowRequests: 'GET /slow-queries',
  GetSettings: 'GET /settings',
  ListAudit: 'GET /audit',
  CreateKey: 'POST /keys',
  ListKeys: 'GET /keys',
  RevokeKey: 'DELETE /keys/:name',
  GetCluster: 'GET /cluster',
  RemoveNode: 'DELETE /cluster/nodes/:name',
  DrainNode: 'POST /cluster/nodes/:name/drain',
  UndrainNode: 'DELETE /cluster/nodes/:name/drain',
  RefetchNode: 'POST /cluster/nodes/:name/refetch',
  SetReplicas: 'PUT /cluster/replicas',
} as const

export type HttpOperation = keyof typeof requestLines

export function httpPath(operation: HttpOperation): { readonly method: Method; readonly path: string } {
  const [method, path] = requestLines[operation].split(' ')
  return { method: method as Method, path: path! }
}

/** The prefix of the points' paths for a named collection, as in `/collections/glosses/points/search`. */
export const collectionPrefix = '/collections/:collection'

/** The parameters of a request. Those that are undefined are left out. */
export type HttpParts = { [name: string]: string | number | boolean | undefined }

/**
 * The method and the path of a request.
 *
 * @param parts the parameters of the path; all others go into its query
 * @param collection to whose path it is sent
 */
export function httpRequest(
  operation: HttpOperation,
  parts: HttpParts = {},
  collection?: string,
): { readonly method: Method; readonly path: string } {
  const { method, path } = httpPath(operation)
  const query = { ...parts }
  const filled = path.replace(/:(\w+)/g, (_, name: string) => {
    delete query[name]
    return encodeURIComponent(String(parts[name]))
  })
  const given = Object.entries(query).filter(([, value]) => value !== undefined)
  const text = String(new URLSearchParams(given.map(([name, value]) => [name, String(value)])))
  const prefix = collection === undefined ? '' : collectionPrefix.replace(':collection', collection)
  return { method, path: `${prefix}${filled}${text && `?${text}`}` }
}
