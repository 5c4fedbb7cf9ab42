package deposit

// Sanctioned is for tests.
var Sanctioned = sanctioned

// WithoutSpam is for tests.
var WithoutSpam = withoutSpam
