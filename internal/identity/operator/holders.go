package operator

import (
	"context"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

// CountHolders returns how many operators could approve a change: people who can sign in and do more
// than read, and the holders of live keys. A key that is named by the e-mail of such a person is that
// person's. A name that people choose themselves does not count, because it would switch dual control
// off. Rule OP-7.
func CountHolders(ctx context.Context, tx pg.Tx) (int, error) {
	people, err := ListPeople(ctx, tx)
	if err != nil {
		return 0, err
	}
	people = slices.DeleteFunc(people, func(p Person) bool {
		return !p.CanSignIn() || !slices.Contains(p.Roles, RoleOperator)
	})
	keys, err := ListKeys(ctx, tx)
	if err != nil {
		return 0, err
	}
	count := len(people)
	for _, k := range keys {
		isPersons := slices.ContainsFunc(people, func(p Person) bool { return IsSameHolder(p.Email, k.Name) })
		if k.RevokedAt == nil && !isPersons {
			count++
		}
	}
	return count, nil
}

// IsSameHolder reports whether two names of holders are those of one operator. Rule OP-9.
func IsSameHolder(first, second string) bool { return strings.EqualFold(first, second) }
