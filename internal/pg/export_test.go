package pg

// OwnerPool is what steps of a migration run on, for tests.
var OwnerPool = ownerPool
