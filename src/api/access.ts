import type { ApiKey, Role } from '../base/api-key.ts'
import { DatabaseError } from '../base/errors.ts'
import type { OperationName } from './operations.ts'

/**
 * The role that each operation needs. Everything that is not listed here, such as snapshots, needs the role `write`.
 */
export const operationRoles: Readonly<Record<OperationName, Role>> = {
  InsertVector: 'write',
  InsertVectorsBatch: 'write',
  DeletePoint: 'write',
  GetPoint: 'read',
  SearchPoints: 'read',
  SearchPointsBatch: 'read',
  PutPoint: 'write',
  PatchPoint: 'write',
  ListPoints: 'read',
  CountPoints: 'read',
  FacetPoints: 'read',
  UpdatePoints: 'write',
  DeletePoints: 'write',
  ListCollections: 'read',
  GetCollection: 'read',
  PutCollection: 'write',
  DeleteCollection: 'write',
  SetAliases: 'write',
}

export function allows({ role }: ApiKey, needed: Role): boolean {
  return role === 'write' || needed === 'read'
}

/** @param what the transport's name for the request */
export function permissionDenied({ name }: ApiKey, what: string): DatabaseError {
  return new DatabaseError(
    'permission_denied',
    `the key ${name} may only read: ${what} needs one with the role write`,
  )
}
