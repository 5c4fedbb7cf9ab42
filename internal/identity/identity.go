// Package identity has what the members of organizations, operators and API keys have in common:
// the form of the keys.
//
// It never stores a key. It has no I/O, so a crash leaves nothing.
package identity
