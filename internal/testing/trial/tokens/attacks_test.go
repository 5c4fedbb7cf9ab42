package tokens

import (
	"fmt"
	"math/big"
	"math/rand/v2"

	"github.com/ethereum/go-ethereum/common"
)

// The opcodes that attacks use.
const (
	opStop         = 0x00
	opAdd          = 0x01
	opSub          = 0x03
	opGt           = 0x11
	opEq           = 0x14
	opIsZero       = 0x15
	opAnd          = 0x16
	opShl          = 0x1b
	opCallDataLoad = 0x35
	opGasPrice     = 0x3a
	opNumber       = 0x43
	opSelfBalance  = 0x47
	opBaseFee      = 0x48
	opPop          = 0x50
	opMStore       = 0x52
	opMStore8      = 0x53
	opSStore       = 0x55
	opJumpI        = 0x57
	opGas          = 0x5a
	opJumpDest     = 0x5b
	opPush1        = 0x60
	opDup1         = 0x80
	opSwap1        = 0x90
	opLog0         = 0xa0
	opCreate       = 0xf0
	opCall         = 0xf1
	opCallCode     = 0xf2
	opDelegateCall = 0xf4
	opStaticCall   = 0xfa
	opInvalid      = 0xfe
	opSelfDestruct = 0xff
)

// program is code under construction.
type program struct{ code []byte }

func (p *program) appendOps(ops ...byte) *program {
	p.code = append(p.code, ops...)
	return p
}

// pushNumber pushes a number, with as few bytes as it needs and at least one.
func (p *program) pushNumber(n int) *program { return p.pushBytes(big.NewInt(int64(n)).Bytes()) }

func (p *program) pushBytes(b []byte) *program {
	if len(b) == 0 {
		b = []byte{0}
	}
	return p.appendOps(opPush1 + byte(len(b)) - 1).appendOps(b...)
}

// orFail ends the code: it stops if the top of the stack is not zero, and otherwise burns all gas
// and fails.
func (p *program) orFail() []byte {
	stop := len(p.code) + 5
	return p.appendOps(opPush1+1, byte(stop>>8), byte(stop), opJumpI, opInvalid, opJumpDest, opStop).code
}

// attack is a contract that makes a cheap transaction expensive to trace. It first inflates what
// nodes answer about its transaction, and then forwards its value to the address in the call data.
type attack struct {
	name  string
	code  []byte
	keeps int64 // wei of its value that it does not forward
}

// emptyAccount has no code, so that a call to it costs nothing but the call.
var emptyAccount = common.HexToAddress("0xdead")

// repeatBody runs a body n times. The body leaves the stack as it found it.
func repeatBody(p *program, n int, body func(p *program)) {
	p.pushNumber(n)
	loop := len(p.code)
	p.appendOps(opJumpDest)
	body(p)
	p.pushNumber(1).appendOps(opSwap1, opSub, opDup1).pushNumber(loop).appendOps(opJumpI, opPop)
}

// endForwarding ends a contract: its balance goes to the address in the
// first word of the call data, by a call or by a contract that destroys itself.
func endForwarding(p *program, destroy bool) []byte {
	if destroy {
		// The value goes into a contract that destroys itself in favour of the address: PUSH20, the
		// address, SELFDESTRUCT.
		p.pushNumber(opPush1 + 19).pushNumber(0).appendOps(opMStore8)
		p.pushNumber(0).appendOps(opCallDataLoad).pushNumber(96).appendOps(opShl).pushNumber(1).appendOps(opMStore)
		p.pushNumber(opSelfDestruct).pushNumber(21).appendOps(opMStore8)
		return p.pushNumber(22).pushNumber(0).appendOps(opSelfBalance, opCreate).orFail()
	}
	return p.pushNumber(0).appendOps(
		opDup1, opDup1, opDup1, opSelfBalance,
	).pushNumber(0).appendOps(opCallDataLoad, opGas, opCall).orFail()
}

// repeatCalls repeats one kind of call with much memory as its input.
func repeatCalls(kind byte, n, size int) func(*program) {
	return func(p *program) {
		repeatBody(p, n, func(p *program) {
			switch kind {
			case opCall:
				p.pushNumber(0).pushNumber(0).pushNumber(size).pushNumber(0).pushNumber(0).
					pushBytes(emptyAccount[:]).appendOps(opGas, opCall, opPop)
			case opStaticCall, opDelegateCall:
				p.pushNumber(0).pushNumber(0).pushNumber(size).pushNumber(0).
					pushBytes(emptyAccount[:]).appendOps(opGas, kind, opPop)
			case opCallCode:
				p.pushNumber(0).pushNumber(0).pushNumber(size).pushNumber(0).pushNumber(0).
					pushBytes(emptyAccount[:]).appendOps(opGas, opCallCode, opPop)
			case opCreate: // the memory is zero: the init code stops at once
				p.pushNumber(size).pushNumber(0).pushNumber(0).appendOps(opCreate, opPop)
			}
		})
	}
}

// repeatLogs repeats an event with much data. It announces no transfer.
func repeatLogs(n, size int) func(*program) {
	return func(p *program) {
		repeatBody(p, n, func(p *program) { p.pushNumber(size).pushNumber(0).appendOps(opLog0) })
	}
}

// writeSlots writes storage slots, which the tracers of state would show.
func writeSlots(n int) func(*program) {
	return func(p *program) {
		repeatBody(p, n, func(p *program) { p.appendOps(opDup1, opNumber, opDup1+1, opSStore, opPop) })
	}
}

// payStrangers sends one wei each to accounts, which changes their balances.
func payStrangers(n int) func(*program) {
	return func(p *program) {
		repeatBody(p, n, func(p *program) {
			// The counter is the lower part of the address.
			p.appendOps(opDup1).pushBytes(
				common.HexToAddress("0x7700000000000000000000000000000000000000").Bytes(),
			).appendOps(opAdd)
			p.pushNumber(0).appendOps(opDup1, opDup1, opDup1).pushNumber(1).appendOps(
				opDup1+5, opGas, opCall, opPop, opPop,
			)
		})
	}
}

// drawAttacks draws attacks from a seed: every kind once, in random order and size.
func drawAttacks(seed uint64) []attack {
	r := rand.New(rand.NewPCG(seed, 14))
	between := func(from, to int) int { return from + r.IntN(to-from+1) }
	paid := between(20, 60)
	kinds := []struct {
		name  string
		body  func(*program)
		keeps int64
	}{
		{"CALL", repeatCalls(opCall, between(100, 400), between(20_000, 60_000)), 0},
		{"STATICCALL", repeatCalls(opStaticCall, between(100, 400), between(20_000, 60_000)), 0},
		{"DELEGATECALL", repeatCalls(opDelegateCall, between(100, 400), between(20_000, 60_000)), 0},
		{"CALLCODE", repeatCalls(opCallCode, between(100, 400), between(20_000, 60_000)), 0},
		{"CREATE", repeatCalls(opCreate, between(10, 40), between(20_000, 49_000)), 0},
		{"LOG", repeatLogs(between(20, 60), between(2_000, 4_000)), 0},
		{"SSTORE", writeSlots(between(20, 100)), 0},
		{"strangers", payStrangers(paid), int64(paid)},
	}
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	all := make([]attack, 0, len(kinds))
	for _, k := range kinds {
		p := new(program)
		k.body(p)
		destroy := r.IntN(2) == 1
		all = append(all, attack{
			fmt.Sprintf("%s, destroys itself %v", k.name, destroy), endForwarding(p, destroy), k.keeps,
		})
	}
	return all
}

// trap is a payee that accepts a payment cheaply when it detects a simulation, and burns all gas
// and fails in a block.
type trap struct {
	name      string
	simulated func(p *program) // leaves 1 on the stack when it detects a simulation
}

// trapCode accepts if simulated says so, and otherwise runs into an invalid instruction.
func trapCode(simulated func(p *program)) []byte {
	p := new(program)
	simulated(p)
	return p.orFail()
}

var traps = []trap{
	{"the gas price is zero", func(p *program) { p.appendOps(opGasPrice, opIsZero) }},
	{"the base fee is zero", func(p *program) { p.appendOps(opBaseFee, opIsZero) }},
	{"the price is the base fee", func(p *program) { p.appendOps(opBaseFee, opGasPrice, opEq) }},
	{"there is gas for a block", func(p *program) { p.pushNumber(1_000_000).appendOps(opGas, opGt) }},
	{"the block's number is odd", func(p *program) { p.pushNumber(1).appendOps(opNumber, opAnd) }},
	{"the block's number is even", func(p *program) { p.pushNumber(1).appendOps(opNumber, opAnd, opIsZero) }},
}
