import { fromBinary, isFieldSet, toBinary } from '@bufbuild/protobuf'
import {
  FieldDescriptorProtoSchema,
  type FileDescriptorProto,
  FileDescriptorProtoSchema,
  file_google_protobuf_empty,
} from '@bufbuild/protobuf/wkt'
import type { Server } from '@grpc/grpc-js'
import { loadSync, type MessageTypeDefinition } from '@grpc/proto-loader'
import { ReflectionService } from '@grpc/reflection'

/**
 * Shows a proto file to callers that ask for it.
 *
 * The loader's descriptors are not quite what a compiler makes of the file: the imports are missing, and
 * `optional`, and names of types are as they were written. Callers that link what they are shown, as grpcurl
 * does, could not use them, so they are completed here; a test holds the result to the compiler's.
 *
 * @param path the file, whose only import is google/protobuf/empty.proto and whose messages do not nest
 * @param message the full name of any message in it
 */
export function addReflection(server: Server, path: string, message: string): void {
  const definition = loadSync(path, { includeDirs: [], keepCase: true })[message] as MessageTypeDefinition<
    object,
    object
  >
  const file = fromBinary(FileDescriptorProtoSchema, definition.fileDescriptorProtos[0]!)
  complete(file)
  const fileDescriptorProtos = [file, empty].map((each) =>
    Buffer.from(toBinary(FileDescriptorProtoSchema, each)),
  )
  new ReflectionService({ [message]: { ...definition, fileDescriptorProtos } }).addToServer(server)
}

const empty = file_google_protobuf_empty.proto

function complete(file: FileDescriptorProto): void {
  const fullName = (name: string): string => {
    if (name.startsWith('.')) return name
    return name.includes('.') ? `.${name}` : `.${file.package}.${name}`
  }
  file.dependency = [empty.name]
  for (const { field, oneofDecl } of file.messageType) {
    for (const each of field) {
      if (each.typeName !== '') each.typeName = fullName(each.typeName)
      // An optional field stands in a oneof of its own, named after it.
      const isInOneof = isFieldSet(each, FieldDescriptorProtoSchema.field.oneofIndex)
      if (isInOneof && oneofDecl[each.oneofIndex]?.name === `_${each.name}`) each.proto3Optional = true
    }
  }
  for (const method of file.service.flatMap((service) => service.method)) {
    method.inputType = fullName(method.inputType)
    method.outputType = fullName(method.outputType)
  }
}
