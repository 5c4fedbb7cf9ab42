// Package lockorder knows the order in which transactions of Coffer take locks, and finds the
// transactions of a test that take them in another order.
//
// The lists in this file are the one source of the order. docs/design/locks.md shows them, and a
// test compares both. The package reads the statements that a connection sends, and adds what
// triggers, functions and foreign keys lock in the server, which it reads from the catalogue. It
// looks at tables and not at rows: two statements on one table count as one place in the order.
//
// It never runs in a service: only package pgtest uses it. A crash leaves nothing.
package lockorder

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Mode is the strength of a lock. A row has the first four, an advisory lock the last two.
type Mode int

// The modes of PostgreSQL, each stronger than the one before it.
const (
	ForKeyShare Mode = iota + 1
	ForShare
	ForNoKeyUpdate
	ForUpdate
	Shared
	Exclusive
)

func (m Mode) String() string {
	return [...]string{
		"", "FOR KEY SHARE", "FOR SHARE", "FOR NO KEY UPDATE", "FOR UPDATE", "shared", "exclusive",
	}[m]
}

// conflicts reports whether two transactions cannot have these locks on one object at once.
func conflicts(a, b Mode) bool {
	if a > b {
		a, b = b, a
	}
	switch {
	case a >= Shared:
		return b == Exclusive
	case b == ForUpdate:
		return true
	case b == ForNoKeyUpdate:
		return a >= ForShare
	}
	return false
}

// Lock is a table whose rows are locked, or an advisory lock.
type Lock struct {
	Name string // of the table, or the beginning of the advisory lock's name
	// Fresh says why no session can wait for a row that a plain INSERT adds. Without it an INSERT
	// counts as a lock, for it waits for another one of the same key.
	Fresh string
	// Strong says that some transaction takes FOR UPDATE or deletes. Only then can FOR KEY SHARE,
	// which a foreign key takes, wait.
	Strong bool

	rank  int
	level string // as a violation names it
	group string // "" for the global order
}

// Level is one step of the global order, with its locks in the order in which one transaction takes
// them.
type Level struct {
	Title string
	Locks []Lock
}

// Group is a set of locks that are taken together with no lock of the global order.
type Group struct {
	Title string
	Locks []Lock
}

// Exception is a path that takes a lock of an earlier place behind one of a later place, and cannot
// be part of a circle.
type Exception struct {
	Number   int      // under "Safe exceptions" of docs/design/locks.md
	Held     []string // the locks that it has; nil: any
	Taken    []string // the locks that it takes behind them; nil: any
	Function string   // the function of the path, as package.function or package.type.method
}

// Order has every lock of Coffer.
type Order struct {
	Levels     []Level
	Groups     []Group
	Unlocked   []Lock // tables whose rows no transaction waits for
	Exceptions []Exception

	locks map[string]*Lock
}

// Find returns the table of that name, or the advisory lock whose name begins so; nil means that
// the order does not have it.
func (o *Order) Find(name string) *Lock {
	if l := o.locks[name]; l != nil {
		return l
	}
	for beginning, l := range o.locks {
		if strings.HasSuffix(beginning, " ") || strings.HasSuffix(beginning, "/") {
			if strings.HasPrefix(name, beginning) {
				return l
			}
		}
	}
	return nil
}

// Names returns the names of all locks, in their order.
func (o *Order) Names() (names []string) {
	for _, l := range slices.SortedFunc(maps.Values(o.locks), func(a, b *Lock) int { return a.rank - b.rank }) {
		names = append(names, l.Name)
	}
	return names
}

// index numbers the locks and refuses a name that stands twice.
func (o *Order) index() error {
	o.locks = map[string]*Lock{}
	rank := 0
	add := func(locks []Lock, level, group string) error {
		for i := range locks {
			l := &locks[i]
			rank++
			l.rank, l.level, l.group = rank, level, group
			if o.locks[l.Name] != nil {
				return fmt.Errorf("the lock order names %q twice", l.Name)
			}
			o.locks[l.Name] = l
		}
		return nil
	}
	for i, level := range o.Levels {
		if err := add(level.Locks, fmt.Sprintf("level %d", i+1), ""); err != nil {
			return err
		}
	}
	for _, group := range o.Groups {
		if err := add(group.Locks, "group "+group.Title, group.Title); err != nil {
			return err
		}
	}
	return add(o.Unlocked, "no level", unlocked)
}

// unlocked is the group of tables that have no place in the order.
const unlocked = "unlocked"

// allows returns the exception that permits a path to take a lock behind another.
func (o *Order) allows(held, taken *Lock, path []string) *Exception {
	for i := range o.Exceptions {
		e := &o.Exceptions[i]
		if (e.Taken == nil || slices.Contains(e.Taken, taken.Name)) &&
			(e.Held == nil || slices.Contains(e.Held, held.Name)) && slices.ContainsFunc(path, e.matches) {
			return e
		}
	}
	return nil
}

// matches reports whether a function of a stack is the one of the exception, or one within it.
func (e *Exception) matches(function string) bool {
	rest, ok := strings.CutPrefix(function, e.Function)
	return ok && (rest == "" || rest[0] == '.')
}
