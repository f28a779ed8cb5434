/* What the corpus of objects is compiled from; see CMakeLists.txt. */
int one(int a) { return a + 1; }
int two(int a) { return a * 2; }
