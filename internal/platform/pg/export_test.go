package pg

// OwnerPool opens the pool on which the steps of a migration run, for tests.
var OwnerPool = ownerPool

// IsQuiet exports isQuiet.
var IsQuiet = isQuiet
