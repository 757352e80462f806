// Package page has tests only: they hold all recipes to what docs/recipes.md says of
// them. Each test is a table with a line for each recipe.
package page
