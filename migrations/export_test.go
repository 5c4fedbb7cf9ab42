package migrations

// Steps are the steps one by one, for tests that run one again.
var Steps = steps
