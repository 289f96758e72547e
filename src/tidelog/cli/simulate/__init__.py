"""`tidelog simulate`: `command` reads the line, `seeds` runs many, `one` runs one, `failing` tells of one that broke,
`hunting` looks for mutants; `pool` spreads all of it over processes, `watching` shows how far it is."""
