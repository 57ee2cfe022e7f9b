/** Styles are bundled; they have no content for a script. */
declare module "*.css";
