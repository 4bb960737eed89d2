// The real library as the judge of crates/model/merge: makes random cases, runs them, prints them with what came out.
//
//	go run ./oracle -seed 1 -count 200 >../../crates/model/merge/tests/vectors/apply.jsonl
//	go run ./oracle -strategic -seed 1 -count 400 >../../crates/model/merge/tests/vectors/strategic.jsonl
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
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
	flag.Parse()
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for n := *seed; n < *seed+*count; n++ {
		g := &gen{rand.New(rand.NewSource(n))}
		var made any
		if *strategic {
			made = strategicCase(g)
		} else {
			made = applyCase(g)
		}
		made.(map[string]any)["name"] = fmt.Sprintf("seed %d", n)
		check(out.Encode(made))
	}
}
