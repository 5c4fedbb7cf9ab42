package cli

// GasWanted is what an operator is asked to send.
var GasWanted = gasWanted
