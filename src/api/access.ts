import type { ApiKey, Role } from '../base/api-key.ts'
import { DatabaseError } from '../base/errors.ts'
import type { OperationName } from './operations.ts'

/** What a key must allow for each operation; what is not among them, such as snapshots, takes a key for everything. */
export const operationRoles: Readonly<Record<OperationName, Role>> = {
  InsertVector: 'write',
  InsertVectorsBatch: 'write',
  DeletePoint: 'write',
  GetPoint: 'read',
  SearchPoints: 'read',
  SearchPointsBatch: 'read',
  ListCollections: 'read',
  GetCollection: 'read',
  PutCollection: 'write',
  DeleteCollection: 'write',
  SetAliases: 'write',
}

export function allows({ role }: ApiKey, needed: Role): boolean {
  return role === 'write' || needed === 'read'
}

/** @param what was asked for, as the transport names it */
export function permissionDenied({ name }: ApiKey, what: string): DatabaseError {
  return new DatabaseError(
    'permission_denied',
    `the key ${name} may only read: ${what} needs one with the role write`,
  )
}
