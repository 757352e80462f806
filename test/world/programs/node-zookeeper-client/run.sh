exec node "$FROM/writers.js"
