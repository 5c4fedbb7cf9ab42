package localworld

import "github.com/cofferpay/coffer/internal/platform/pg/local"

// SuperURL returns the URL that logs in to the world's database as its superuser. Row-level
// security does not hide rows from it.
func (w *World) SuperURL() string { return w.database.SuperURL(local.Database) }
