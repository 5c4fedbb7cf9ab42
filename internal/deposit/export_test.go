package deposit

// Sanctioned exports isSanctioned for tests.
var Sanctioned = isSanctioned
