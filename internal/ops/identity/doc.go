// Package identity defines which requests a process of Geobench accepts from which callers, and lets each process prove
// its identity.
//
// An operator has a single Authority, kept in a Secret of the operator's namespace. It consists of a secret from which
// keys are derived (HKDF, RFC 5869), and the certificates that sign all other certificates. It provides
//
//   - the certificates of the administration servers (mutual TLS): a server belongs to one database or one run, which
//     its name states, and answers the operator alone;
//   - the keys that nodes prove to each other, and the load generators of a run to nodes, when they connect (package wire);
//   - the keys that bind a load generator's results to its run, and the operator's data in ConfigMaps to the operator.
//
// A Folder is a Secret as a pod sees it: files that are read whenever they are used, so that certificates are renewed
// without anybody being started again. Cryptography is the standard library's; docs/security.md has the threat model.
package identity
