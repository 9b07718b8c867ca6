package main

import "context"

func chartTest(ctx context.Context, root string) error { return nil }
