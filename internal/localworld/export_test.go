package localworld

import "github.com/cofferpay/coffer/internal/pg/local"

// SuperURL logs in to the world's database as its superuser, whom no policy of a
// row keeps from seeing it.
func (w *World) SuperURL() string { return w.database.SuperURL(local.Database) }
