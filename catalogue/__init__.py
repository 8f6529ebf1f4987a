"""How the catalogue of options is made: extracted from the plugins, stored, and shown in docs/options.md."""
