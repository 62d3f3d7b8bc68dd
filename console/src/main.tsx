import { render } from 'preact'
import './styles/base.css'
import './styles/parts.css'
import './styles/views.css'
import { App } from './app.tsx'

render(<App />, document.getElementById('root')!)
