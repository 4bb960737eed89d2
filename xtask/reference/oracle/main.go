// The real library as the judge of crates/model/merge: makes random cases, runs them, prints them with what came out.
//
//	export GOFLAGS=-mod=mod
//	go run ./oracle -seed 1 -count 400 -limit 4000 >../../crates/model/merge/tests/vectors/apply.jsonl
//	go run ./oracle -strategic -seed 1 -count 400 -limit 1000 >../../crates/model/merge/tests/vectors/strategic.jsonl
//	go run ./oracle -scale -seed 1 -count 40 >../../crates/model/merge/tests/vectors/scale.jsonl
//	go run ./oracle -builtin 6 -seed 1 -count 40 >../../crates/model/merge/tests/vectors/builtin.jsonl
//	go run ./oracle -marshal -seed 1 -count 2 -limit 8000 >../../crates/model/schema/tests/vectors/protobuf.jsonl
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"reflect"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func copied(v any) any {
	raw, err := json.Marshal(v)
	check(err)
	return decoded(raw)
}

func main() {
	seed := flag.Int64("seed", 1, "of the first case")
	count := flag.Int64("count", 100, "of cases")
	strategic := flag.Bool("strategic", false, "strategic merge patches instead of applies")
	scale := flag.Bool("scale", false, "managers of scales instead of applies")
	builtin := flag.Int("builtin", 0, "so many of the built-in kinds instead of custom ones")
	marshal := flag.Bool("marshal", false, "objects of every kind in JSON and in protobuf instead of applies")
	limit := flag.Int("limit", 0, "of bytes of a case; longer ones are left out")
	flag.Parse()
	if *strategic {
		print(object{"schema": reflected(reflect.TypeFor[Root]())}, 0)
	}
	var known *builtins
	if *builtin > 0 {
		known = newBuiltins()
	}
	for n := *seed; *marshal && n < *seed+*count; n++ {
		for _, gvk := range marshalled() {
			if made := marshalCase(&gen{rand.New(rand.NewSource(n))}, gvk); made != nil {
				print(made, *limit)
			}
		}
	}
	if *marshal {
		return
	}
	for n := *seed; n < *seed+*count; n++ {
		g := &gen{rand.New(rand.NewSource(n))}
		var made any
		switch {
		case *strategic:
			made = strategicCase(g)
		case known != nil:
			made = builtinCase(g, known, min(*builtin, len(kinds)))
		case *scale:
			made = scaleCase(g)
		default:
			made = applyCase(g)
		}
		made.(map[string]any)["name"] = fmt.Sprintf("seed %d", n)
		print(made, *limit)
	}
}

func print(made any, limit int) {
	line := bytes.Buffer{}
	out := json.NewEncoder(&line)
	out.SetEscapeHTML(false)
	check(out.Encode(made))
	if limit == 0 || line.Len() <= limit {
		os.Stdout.Write(line.Bytes())
	}
}
