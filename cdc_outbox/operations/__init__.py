"""Questions and chores that span the components, for the one who runs them."""
