// Package surfacetest tests the surfaces over HTTP, on PostgreSQL and a signer, and compares each
// answer with the document. It has only tests: they call the organizations' and the operators'
// surface of the same service.
package surfacetest
