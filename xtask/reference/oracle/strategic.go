package main

func strategicCase(g *gen) any { return object{} }
