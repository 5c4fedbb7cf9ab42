package lockorder

import (
	"fmt"
	"slices"
	"strings"
)

// token is one lexical element of SQL. A group holds the tokens between two parentheses.
type token struct {
	kind  tokenKind
	text  string // an unquoted word is in lower case; a string is without its quotes
	group []token
}

type tokenKind int

const (
	wordToken   tokenKind = iota // keyword or identifier
	quotedToken                  // quoted identifier
	stringToken
	numberToken
	paramToken // $1
	punctToken
	groupToken
)

func (t token) isWord(words ...string) bool {
	return t.kind == wordToken && slices.Contains(words, t.text)
}

func (t token) isPunct(text string) bool { return t.kind == punctToken && t.text == text }

// scan splits SQL into tokens and puts what stands between parentheses into groups.
func scan(sql string) ([]token, error) {
	stack := [][]token{nil}
	add := func(t token) { stack[len(stack)-1] = append(stack[len(stack)-1], t) }
	for i := 0; i < len(sql); {
		c := sql[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case strings.HasPrefix(sql[i:], "--"):
			end := strings.IndexByte(sql[i:], '\n')
			if end < 0 {
				end = len(sql) - i
			}
			i += end
		case strings.HasPrefix(sql[i:], "/*"):
			end := strings.Index(sql[i:], "*/")
			if end < 0 {
				return nil, fmt.Errorf("a comment has no end")
			}
			i += end + 2
		case c == '(':
			stack = append(stack, nil)
			i++
		case c == ')':
			if len(stack) == 1 {
				return nil, fmt.Errorf("a parenthesis is closed that was not opened")
			}
			inner := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			add(token{kind: groupToken, group: inner})
			i++
		case c == '\'':
			text, following, err := scanQuoted(sql, i, '\'')
			if err != nil {
				return nil, err
			}
			// The letter E before a string permits escapes with a backslash. Coffer uses none.
			if last := stack[len(stack)-1]; len(last) > 0 && last[len(last)-1].isWord("e") && sql[i-1] != ' ' {
				return nil, fmt.Errorf("a string with escapes")
			}
			add(token{kind: stringToken, text: text})
			i = following
		case c == '"':
			text, following, err := scanQuoted(sql, i, '"')
			if err != nil {
				return nil, err
			}
			add(token{kind: quotedToken, text: text})
			i = following
		case c == '$':
			end := i + 1
			for end < len(sql) && isWordByte(sql[end]) {
				end++
			}
			if end > i+1 && sql[i+1] >= '0' && sql[i+1] <= '9' {
				add(token{kind: paramToken, text: sql[i:end]})
				i = end
				break
			}
			if end == len(sql) || sql[end] != '$' {
				return nil, fmt.Errorf("a dollar sign without a number")
			}
			tag := sql[i : end+1]
			length := strings.Index(sql[end+1:], tag)
			if length < 0 {
				return nil, fmt.Errorf("a string quoted by %s has no end", tag)
			}
			add(token{kind: stringToken, text: sql[end+1 : end+1+length]})
			i = end + 1 + length + len(tag)
		case isWordByte(c):
			end := i
			for end < len(sql) && isWordByte(sql[end]) {
				end++
			}
			kind := wordToken
			if c >= '0' && c <= '9' {
				kind = numberToken
			}
			add(token{kind: kind, text: strings.ToLower(sql[i:end])})
			i = end
		default:
			add(token{kind: punctToken, text: sql[i : i+1]})
			i++
		}
	}
	if len(stack) > 1 {
		return nil, fmt.Errorf("a parenthesis is not closed")
	}
	return stack[0], nil
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c >= 0x80
}

func scanQuoted(sql string, start int, quote byte) (text string, following int, err error) {
	var b strings.Builder
	for i := start + 1; i < len(sql); i++ {
		if sql[i] != quote {
			b.WriteByte(sql[i])
			continue
		}
		if i+1 < len(sql) && sql[i+1] == quote {
			b.WriteByte(quote)
			i++
			continue
		}
		return b.String(), i + 1, nil
	}
	return "", 0, fmt.Errorf("a quoted text has no end")
}

// operation is what one part of a statement does to a table or an advisory lock.
type operation int

const (
	lockRows operation = iota // SELECT with a locking clause
	insertRows
	updateRows
	deleteRows
	lockAdvisory
	callFunction
)

// step is one part of a statement that may take locks, in the order in which the parts run.
type step struct {
	op       operation
	name     string // table or function; of an advisory lock its literal, or "" if an argument names it
	param    int    // number of the argument that names the advisory lock, or 0
	mode     Mode   // of lockRows
	tries    bool   // never waits: SKIP LOCKED, NOWAIT, pg_try_…
	sorted   bool   // lockRows with ORDER BY
	columns  []assignment
	upsert   bool // ON CONFLICT DO UPDATE
	upserted []assignment
}

// assignment is a column that INSERT or UPDATE writes. Without a value the text has an expression.
type assignment struct {
	column  string
	literal string // value of a string literal
	param   int    // number of the argument, or 0
	null    bool
	// The value is nullif($n, '').
	emptyIsNull bool
	// The argument is an array, and each row gets an element of it.
	isElement bool
}

// parser collects the steps of one text. The first error ends it.
type parser struct {
	steps []step
	err   error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// parseSQL returns the steps of one statement or of several with semicolons between them. A text
// that it does not understand is an error.
func parseSQL(sql string) ([]step, error) {
	tokens, err := scan(sql)
	if err != nil {
		return nil, err
	}
	p := &parser{}
	for _, part := range split(tokens, func(t token) bool { return t.isPunct(";") }) {
		p.topLevel(part)
	}
	return p.steps, p.err
}

func split(tokens []token, isSeparator func(token) bool) (parts [][]token) {
	start := 0
	for i, t := range tokens {
		if isSeparator(t) {
			parts = append(parts, tokens[start:i])
			start = i + 1
		}
	}
	return append(parts, tokens[start:])
}

// harmless are the first words of statements that lock no row.
var harmless = []string{
	"begin", "commit", "rollback", "set", "reset", "show", "savepoint", "release", "notify", "listen", "unlisten",
}

func (p *parser) topLevel(tokens []token) {
	switch {
	case len(tokens) == 0 || tokens[0].isWord(harmless...):
	case tokens[0].kind == groupToken || tokens[0].isWord(statementWords...):
		p.statement(tokens)
	default:
		p.fail("a statement begins with %q", tokens[0].text)
	}
}

var statementWords = []string{"select", "values", "with", "insert", "update", "delete"}

// statement reads a statement, at the top or between parentheses. What stands in parentheses runs
// before the statement itself.
func (p *parser) statement(tokens []token) {
	if tokens[0].isWord("with") {
		tokens = p.withClause(tokens[1:])
	}
	switch {
	case len(tokens) == 0:
		p.fail("WITH without a statement")
	case tokens[0].kind == groupToken || tokens[0].isWord("select", "values"):
		p.selects(tokens)
	case tokens[0].isWord("insert"):
		p.insert(tokens[1:])
	case tokens[0].isWord("update"):
		p.update(tokens[1:])
	case tokens[0].isWord("delete"):
		p.delete(tokens[1:])
	default:
		p.fail("a statement begins with %q", tokens[0].text)
	}
}

// withClause reads the common table expressions and returns the statement behind them.
func (p *parser) withClause(tokens []token) []token {
	if len(tokens) > 0 && tokens[0].isWord("recursive") {
		tokens = tokens[1:]
	}
	for {
		i := 0
		for i < len(tokens) && !tokens[i].isWord("as") {
			i++
		}
		i++
		for i < len(tokens) && tokens[i].isWord("not", "materialized") {
			i++
		}
		if i >= len(tokens) || tokens[i].kind != groupToken || len(tokens[i].group) == 0 {
			p.fail("WITH without AS (…)")
			return nil
		}
		p.statement(tokens[i].group)
		tokens = tokens[i+1:]
		if len(tokens) == 0 || !tokens[0].isPunct(",") {
			return tokens
		}
		tokens = tokens[1:]
	}
}

// walk visits the groups and calls among tokens. Words that begin a change are not expected here.
func (p *parser) walk(tokens []token) {
	for i, t := range tokens {
		afterDot := i > 0 && tokens[i-1].isPunct(".")
		switch {
		case t.kind == groupToken:
			if len(t.group) > 0 && t.group[0].isWord(statementWords...) {
				p.statement(t.group)
			} else {
				p.walk(t.group)
			}
			if i > 0 && tokens[i-1].kind == wordToken {
				p.call(tokens[i-1].text, t.group)
			}
		case afterDot:
		case t.isWord("update", "insert", "delete", "merge", "truncate", "copy", "execute", "lock"):
			p.fail("%q stands where no statement begins", t.text)
		case t.isWord("for"):
			p.fail("FOR stands where no locking clause is")
		}
	}
}

// call records a call of a function that takes an advisory lock, or of any other function.
func (p *parser) call(name string, args []token) {
	kind, isAdvisory := strings.CutPrefix(name, "pg_advisory_")
	tries := false
	if !isAdvisory {
		kind, isAdvisory = strings.CutPrefix(name, "pg_try_advisory_")
		tries = true
	}
	switch {
	case !isAdvisory:
		p.steps = append(p.steps, step{op: callFunction, name: name})
		return
	case kind == "lock" && tries:
		return // a session lock, which is tried on a connection of its own
	case kind != "xact_lock" && kind != "xact_lock_shared":
		p.fail("%s is not a lock of a transaction that is known here", name)
		return
	}
	s := step{op: lockAdvisory, tries: tries, mode: Exclusive}
	if kind == "xact_lock_shared" {
		s.mode = Shared
	}
	literal := findString(args)
	switch {
	case len(args) == 1 && args[0].kind == paramToken:
		s.param = paramNumber(args[0])
	case literal != "":
		s.name = literal
	default:
		p.fail("%s locks something without a name", name)
	}
	p.steps = append(p.steps, s)
}

func findString(tokens []token) string {
	for _, t := range tokens {
		if t.kind == stringToken {
			return t.text
		}
		if text := findString(t.group); text != "" {
			return text
		}
	}
	return ""
}

func paramNumber(t token) int {
	n := 0
	for _, c := range t.text[1:] {
		n = n*10 + int(c-'0')
	}
	return n
}

// selects reads SELECT or VALUES with its locking clauses.
func (p *parser) selects(tokens []token) {
	body := tokens
	var clauses []token
	for i, t := range tokens {
		if t.isWord("for") && (i == 0 || !tokens[i-1].isPunct(".")) {
			body, clauses = tokens[:i], tokens[i:]
			break
		}
	}
	p.walk(body)
	sorted := slices.ContainsFunc(body, func(t token) bool { return t.isWord("order") })
	for len(clauses) > 0 {
		s := step{op: lockRows, sorted: sorted}
		var rest []token
		var ok bool
		if s.mode, rest, ok = lockingMode(clauses); !ok {
			p.fail("FOR stands where no locking clause is")
			return
		}
		var aliases []string
		if len(rest) > 0 && rest[0].isWord("of") {
			rest = rest[1:]
			for len(rest) > 0 && rest[0].kind == wordToken && !rest[0].isWord("skip", "nowait", "for") {
				aliases = append(aliases, rest[0].text)
				if rest = rest[1:]; len(rest) > 0 && rest[0].isPunct(",") {
					rest = rest[1:]
				}
			}
		}
		if len(rest) > 1 && rest[0].isWord("skip") && rest[1].isWord("locked") {
			s.tries, rest = true, rest[2:]
		} else if len(rest) > 0 && rest[0].isWord("nowait") {
			s.tries, rest = true, rest[1:]
		}
		if len(rest) > 0 && !rest[0].isWord("for") {
			p.fail("%q stands behind a locking clause", rest[0].text)
			return
		}
		for _, table := range p.lockedTables(body, aliases) {
			s.name = table
			p.steps = append(p.steps, s)
		}
		clauses = rest
	}
}

func lockingMode(tokens []token) (mode Mode, rest []token, ok bool) {
	for _, form := range []struct {
		words []string
		mode  Mode
	}{
		{[]string{"for", "update"}, ForUpdate},
		{[]string{"for", "no", "key", "update"}, ForNoKeyUpdate},
		{[]string{"for", "share"}, ForShare},
		{[]string{"for", "key", "share"}, ForKeyShare},
	} {
		if len(tokens) < len(form.words) {
			continue
		}
		matches := true
		for i, word := range form.words {
			matches = matches && tokens[i].isWord(word)
		}
		if matches {
			return form.mode, tokens[len(form.words):], true
		}
	}
	return 0, nil, false
}

// fromEnds are the words that end the list of tables of a SELECT.
var fromEnds = []string{"where", "group", "order", "limit", "having", "window", "offset", "fetch", "union"}

// lockedTables returns the tables of the FROM list that a locking clause names, or all of them.
func (p *parser) lockedTables(body []token, aliases []string) (tables []string) {
	start := -1
	for i, t := range body {
		if t.isWord("from") && (i == 0 || !body[i-1].isWord("distinct")) {
			start = i + 1
			break
		}
	}
	if start < 0 {
		p.fail("a locking clause without FROM")
		return nil
	}
	found := 0
	expectsTable := true
	for i := start; i < len(body) && !body[i].isWord(fromEnds...); i++ {
		t := body[i]
		switch {
		case t.isPunct(",") || t.isWord("join"):
			expectsTable = true
		case expectsTable && t.isWord("only", "lateral"):
		case expectsTable && t.kind == groupToken:
			expectsTable = false
			if len(aliases) == 0 {
				p.fail("a locking clause that names no table locks a subquery as well")
				return nil
			}
		case expectsTable && t.kind == wordToken:
			expectsTable = false
			name, alias := t.text, t.text
			if i+2 < len(body) && body[i+1].isPunct(".") {
				name, alias = body[i+2].text, body[i+2].text
				i += 2
			}
			if i+1 < len(body) && body[i+1].kind == groupToken {
				continue // a function
			}
			following := i + 1
			if following < len(body) && body[following].isWord("as") {
				following++
			}
			if following < len(body) && body[following].kind == wordToken &&
				!body[following].isWord("join", "left", "right", "inner", "cross", "full", "on", "using") &&
				!body[following].isWord(fromEnds...) {
				alias = body[following].text
			}
			if len(aliases) == 0 || slices.Contains(aliases, alias) {
				tables = append(tables, name)
				found++
			}
		}
	}
	if found == 0 || len(aliases) > 0 && found != len(aliases) {
		p.fail("a locking clause names a table that was not found")
	}
	return tables
}

// tableName reads the name of a table and returns what follows.
func (p *parser) tableName(tokens []token) (name string, rest []token) {
	if len(tokens) > 0 && tokens[0].isWord("only") {
		tokens = tokens[1:]
	}
	if len(tokens) == 0 || tokens[0].kind != wordToken {
		p.fail("a change without the name of a table")
		return "", nil
	}
	name, rest = tokens[0].text, tokens[1:]
	if len(rest) > 1 && rest[0].isPunct(".") {
		name, rest = rest[1].text, rest[2:]
	}
	return name, rest
}

func (p *parser) insert(tokens []token) {
	if len(tokens) == 0 || !tokens[0].isWord("into") {
		p.fail("INSERT without INTO")
		return
	}
	s := step{op: insertRows}
	s.name, tokens = p.tableName(tokens[1:])
	if len(tokens) > 1 && tokens[0].isWord("as") {
		tokens = tokens[2:]
	}
	if len(tokens) > 0 && tokens[0].kind == groupToken {
		for _, column := range split(tokens[0].group, func(t token) bool { return t.isPunct(",") }) {
			if len(column) != 1 {
				p.fail("INSERT with a column that is no name")
				return
			}
			s.columns = append(s.columns, assignment{column: column[0].text})
		}
		tokens = tokens[1:]
	} else {
		p.fail("INSERT without its columns")
		return
	}
	source, conflict := tokens, []token(nil)
	for i := range tokens {
		if tokens[i].isWord("on") && i+1 < len(tokens) && tokens[i+1].isWord("conflict") {
			source, conflict = tokens[:i], tokens[i:]
			break
		}
	}
	if values := source; len(values) == 2 && values[0].isWord("values") {
		s.columns = literals(s.columns, values[1].group)
	} else {
		s.columns = elements(s.columns, source)
	}
	switch {
	case len(source) > 0 && source[0].isWord("with"):
		p.selects(p.withClause(source[1:]))
	default:
		p.selects(source)
	}
	for i := 0; i < len(conflict); i++ {
		if !conflict[i].isWord("do") {
			continue
		}
		if i+1 < len(conflict) && conflict[i+1].isWord("nothing") {
			p.walk(conflict)
			break
		}
		if i+2 >= len(conflict) || !conflict[i+1].isWord("update") || !conflict[i+2].isWord("set") {
			p.fail("ON CONFLICT without NOTHING or UPDATE")
			return
		}
		s.upsert = true
		s.upserted = p.assignments(conflict[i+3:])
		p.walk(conflict[:i])
		p.walk(conflict[i+3:])
		break
	}
	p.steps = append(p.steps, s)
}

// literals adds the values of a list of VALUES to the columns of an INSERT.
func literals(columns []assignment, values []token) []assignment {
	parts := split(values, func(t token) bool { return t.isPunct(",") })
	if len(parts) != len(columns) {
		return columns
	}
	for i, part := range parts {
		columns[i] = valueOf(columns[i].column, part)
	}
	return columns
}

// elements adds what INSERT … SELECT … FROM unnest($1::text[], …) AS w (a, …) takes from its arrays.
func elements(columns []assignment, source []token) []assignment {
	begin := slices.IndexFunc(source, func(t token) bool { return t.isWord("from") })
	if begin < 1 || !source[0].isWord("select") || len(source) < begin+3 || !source[begin+1].isWord("unnest") {
		return columns
	}
	isComma := func(t token) bool { return t.isPunct(",") }
	values, arrays := split(source[1:begin], isComma), split(source[begin+2].group, isComma)
	rest := source[begin+3:]
	for len(rest) > 0 && rest[0].isWord("with", "ordinality", "as") {
		rest = rest[1:]
	}
	if len(rest) < 2 || rest[0].kind != wordToken || rest[1].kind != groupToken || len(values) != len(columns) {
		return columns
	}
	params := map[string]token{}
	for i, name := range split(rest[1].group, isComma) {
		if i < len(arrays) && len(name) == 1 && len(arrays[i]) > 0 && arrays[i][0].kind == paramToken {
			params[name[0].text] = arrays[i][0]
		}
	}
	// element replaces w.a by its array.
	element := func(value []token) ([]token, bool) {
		if len(value) < 3 || !value[0].isWord(rest[0].text) || !value[1].isPunct(".") {
			return value, false
		}
		array, isKnown := params[value[2].text]
		if !isKnown {
			return value, false
		}
		return slices.Concat([]token{array}, value[3:]), true
	}
	for i, value := range values {
		if cast := slices.IndexFunc(value, func(t token) bool { return t.isPunct(":") }); cast > 0 {
			value = value[:cast]
		}
		value, isElement := element(value)
		if len(value) == 2 && value[0].isWord("nullif") {
			value = slices.Clone(value)
			value[1].group, isElement = element(value[1].group)
		}
		columns[i] = valueOf(columns[i].column, value)
		columns[i].isElement = isElement && columns[i].param > 0
	}
	return columns
}

func valueOf(column string, value []token) assignment {
	switch {
	case len(value) == 1 && value[0].kind == stringToken:
		return assignment{column: column, literal: value[0].text}
	case len(value) == 1 && value[0].kind == paramToken:
		return assignment{column: column, param: paramNumber(value[0])}
	case len(value) == 1 && value[0].isWord("null"):
		return assignment{column: column, null: true}
	case len(value) == 2 && value[0].isWord("nullif") && len(value[1].group) == 3:
		first, last := value[1].group[0], value[1].group[2]
		if first.kind == paramToken && last.kind == stringToken && last.text == "" {
			return assignment{column: column, param: paramNumber(first), emptyIsNull: true}
		}
	}
	return assignment{column: column}
}

// assignments reads the list behind SET.
func (p *parser) assignments(tokens []token) (list []assignment) {
	for i, t := range tokens {
		if t.isWord("from", "where", "returning") && (i == 0 || !tokens[i-1].isWord("distinct")) {
			tokens = tokens[:i]
			break
		}
	}
	for _, part := range split(tokens, func(t token) bool { return t.isPunct(",") }) {
		switch {
		case len(part) > 2 && part[0].kind == wordToken && part[1].isPunct("="):
			list = append(list, valueOf(part[0].text, part[2:]))
		case len(part) > 2 && part[0].kind == groupToken && part[1].isPunct("="):
			for _, column := range split(part[0].group, func(t token) bool { return t.isPunct(",") }) {
				if len(column) != 1 {
					p.fail("SET with a column that is no name")
					return nil
				}
				list = append(list, assignment{column: column[0].text})
			}
		default:
			p.fail("SET without column = value")
			return nil
		}
	}
	return list
}

func (p *parser) update(tokens []token) {
	s := step{op: updateRows}
	s.name, tokens = p.tableName(tokens)
	set := slices.IndexFunc(tokens, func(t token) bool { return t.isWord("set") })
	if set < 0 || set > 2 {
		p.fail("UPDATE without SET")
		return
	}
	s.columns = p.assignments(tokens[set+1:])
	p.walk(tokens)
	p.steps = append(p.steps, s)
}

func (p *parser) delete(tokens []token) {
	if len(tokens) == 0 || !tokens[0].isWord("from") {
		p.fail("DELETE without FROM")
		return
	}
	s := step{op: deleteRows}
	s.name, tokens = p.tableName(tokens[1:])
	p.walk(tokens)
	p.steps = append(p.steps, s)
}

// parseBody returns the steps of a function's body. All branches count, in the order of the text.
func parseBody(language, body string) ([]step, error) {
	if language == "sql" {
		return parseSQL(body)
	}
	tokens, err := scan(body)
	if err != nil {
		return nil, err
	}
	p := &parser{}
	for _, part := range split(tokens, func(t token) bool { return t.isPunct(";") }) {
		p.line(part)
	}
	return p.steps, p.err
}

// line reads one statement of PL/pgSQL. Control words such as IF … THEN may stand before it.
func (p *parser) line(tokens []token) {
	for i, t := range tokens {
		if t.isWord("perform") {
			p.walkControl(tokens[:i])
			p.selects(slices.Concat([]token{{kind: wordToken, text: "select"}}, tokens[i+1:]))
			return
		}
		begins := i == 0 || tokens[i-1].isWord("begin", "then", "else", "loop", "in", "query")
		if begins && t.isWord(statementWords...) {
			p.walkControl(tokens[:i])
			body := tokens[i:]
			// FOR row IN SELECT … LOOP statement
			if i > 0 && tokens[i-1].isWord("in") {
				loop := slices.IndexFunc(body, func(t token) bool { return t.isWord("loop") })
				if loop < 0 {
					p.fail("IN SELECT without LOOP")
					return
				}
				p.statement(body[:loop])
				p.line(body[loop+1:])
				return
			}
			p.statement(body)
			return
		}
	}
	p.walkControl(tokens)
}

// walkControl visits the expressions of control statements.
func (p *parser) walkControl(tokens []token) {
	expressions := slices.DeleteFunc(slices.Clone(tokens), func(t token) bool { return t.isWord("for") })
	p.walk(expressions)
}
