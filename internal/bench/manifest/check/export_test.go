package check

// MemoryOf is memoryOf for tests.
var MemoryOf = memoryOf
