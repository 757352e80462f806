// Package page has only tests: they check for all recipes what docs/recipes.md promises of
// them. Each test is a table with a row for each recipe.
package page
