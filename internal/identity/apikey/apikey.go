// Package apikey manages the API keys of organizations and finds the key that a request presents.
//
// A key is shown once and only its hash is kept. An organization has one main key, and additional
// keys with a scope if the operator allows them. A key is never in a log or in the database, and an
// answer never says why a key is refused. A crash may leave a key that its caller has not seen,
// which is rolled or deleted.
package apikey
