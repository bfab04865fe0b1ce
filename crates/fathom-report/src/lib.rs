//! Tables, figures, the HTML report and the exports of Fathom.
