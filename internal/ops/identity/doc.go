// Package identity determines which callers a process of Geobench accepts, and lets each process prove its identity.
//
// An operator has a single Authority, in a Secret of its namespace. The Authority consists of a secret from which keys
// are derived (HKDF, RFC 5869), and of the certificates that sign all other certificates. It provides
//
//   - the certificates of the administration servers (mutual TLS): a server belongs to the database or run that its
//     certificate names, and accepts only the operator;
//   - the keys with which nodes authenticate each other and the load generators of a run (package wire);
//   - the keys that bind a load generator's results to its run, and the operator's data in ConfigMaps to the operator.
//
// A Folder is a Secret as mounted in a pod. Its files are read at each use, so that renewed certificates take effect
// without a restart. All cryptography is from the standard library; docs/security.md has the threat model.
package identity
