package deposit

// Sanctioned is for tests.
var Sanctioned = isSanctioned
