/**
 * Describes a TLS failure and its remedy; returns undefined for any other failure.
 *
 * @param where the address that was called
 * @param text the message of OpenSSL or Node, which is all that gRPC passes on
 */
export function tlsFault(where: string, text: string): string | undefined {
  const remedy = remedies.find(([pattern]) => pattern.test(text))?.[1]
  return remedy && `${remedy(where)} (${text.split('; if the root CA')[0]})`
}

const remedies: readonly (readonly [RegExp, (where: string) => string])[] = [
  [
    /self[- ]signed certificate|unable to (verify|get)|certificate not trusted/i,
    (where) =>
      `the certificate of ${where} is not trusted: name the file of its authority's certificate with --ca-file, or in NODE_EXTRA_CA_CERTS`,
  ],
  [
    /certificate has expired|not yet valid/i,
    (where) => `the certificate of ${where} is not valid at this time: renew it, or set the clock`,
  ],
  [/altnames/i, (where) => `the certificate of ${where} is for other names: call the service by one of them`],
  [
    /wrong version number|packet length too long/i,
    (where) => `${where} does not speak TLS: is it the address of the service itself, and not of its proxy?`,
  ],
]
